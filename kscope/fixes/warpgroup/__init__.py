"""Products of matrices by instructions of whole warps: what a text of mma.sync multiplies, and a kernel of wgmma."""

"""A row by fewer lanes: a warp, or a part of one, where a block or a warp has each row and most of its lanes idle."""

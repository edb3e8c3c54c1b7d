"""What rules found: in order, as firm as the samples allow, fitted to the chip, with the changes that mend it."""

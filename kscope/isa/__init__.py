"""What an instruction is: opcodes and their kinds, what they are for, operand shapes, control fields. No I/O."""

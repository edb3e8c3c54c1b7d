"""The public view: `Analysis`, `Comparison`, `Detail` and the parts they are made of, JSON v1 field by field."""

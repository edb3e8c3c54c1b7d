"""Rules on grid."""

"""Work in other pieces: rounds, threads and tiles dealt to blocks anew."""

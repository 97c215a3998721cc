"""What there is to learn, and what training yields."""

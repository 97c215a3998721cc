"""What the world does: devices, channels, people and energy as pure functions of time."""

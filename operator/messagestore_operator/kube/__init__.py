"""What any operator needs and kopf lacks. It knows none of the three kinds, and imports nothing of the operator."""

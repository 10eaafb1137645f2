"""The local folder: objects as files, durable before they are acknowledged."""

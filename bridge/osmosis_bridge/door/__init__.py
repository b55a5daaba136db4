"""The way in: HTTP/1.1 from a socket to the application and back, below uvicorn's server. Knows no provider."""

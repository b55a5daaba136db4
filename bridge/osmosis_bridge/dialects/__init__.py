"""The wire formats that agents speak, one module each: how a reply is read, how a stream begins, goes on and ends."""

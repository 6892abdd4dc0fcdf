"""May read private text. Nothing here returns anything to the outside: results leave through release/ only."""

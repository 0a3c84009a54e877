"""Two small plug-ins, on by `[plugins] enabled` only: an image downloader, a web monitor. Patterns for your own."""

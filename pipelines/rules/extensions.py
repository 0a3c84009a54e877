"""Endings of paths that are not fetched."""

from __future__ import annotations

EXTENSIONS = (
    # pictures
    "ai", "avif", "bmp", "cr2", "dng", "eps", "gif", "heic", "ico", "jfif", "jpe", "jpeg", "jpg", "nef", "png",
    "ps", "psd", "svg", "svgz", "tif", "tiff", "webp", "xcf",
    # sound and film
    "3gp", "aac", "aif", "aiff", "asf", "avi", "f4v", "flac", "flv", "m3u8", "m4a", "m4v", "mid", "midi", "mkv",
    "mov", "mp2", "mp3", "mp4", "mpeg", "mpg", "oga", "ogg", "ogv", "opus", "swf", "ts", "wav", "weba", "webm",
    "wma", "wmv",
    # archives, programs, disks
    "7z", "apk", "appimage", "bin", "bz2", "cab", "deb", "dll", "dmg", "exe", "gz", "img", "iso", "jar", "lz", "lzma",
    "msi", "pkg", "rar", "rpm", "sit", "tar", "tgz", "war", "whl", "xpi", "xz", "zip", "zst",
    # what pages are made of
    "css", "eot", "js", "less", "map", "mjs", "otf", "scss", "ttf", "wasm", "woff", "woff2",
    # data of programs
    "bak", "blend", "class", "dat", "db", "dwg", "h5", "hdf", "mdb", "nc", "npy", "npz", "o", "parquet", "pyc", "shp",
    "so", "sqlite", "stl", "torrent",
)  # fmt: skip
"""Endings whose bytes are not read as text here. Documents (pdf, doc, epub ...), feeds and XML are fetched.

Made from the kinds that Nutch's regex-urlfilter and suffix-urlfilter and Heritrix's default rules leave out.
"""

/** Bytes of one message at most. Larger ones are no answers but mistakes, and reading them would stop everything else. */
export const mostBytes = 10 * 1024 * 1024;

/** Pages of a list, and tools in it, at most: a server may give pages without end. */
export const mostPages = 100;
export const mostTools = 1000;

/** Characters of the schemas of a server's tools together: each is made into code, which takes its time. */
export const mostSchemaCharacters = 2 * 1024 * 1024;

/** A program and its arguments: never a shell line, and nothing in it is expanded. */
export type CommandLine = readonly [program: string, ...args: string[]];

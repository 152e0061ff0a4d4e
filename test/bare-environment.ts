/**
 * The variables of a child process that a test starts without those of the machine: where programs are, and where Node keeps the code that it compiled from
 * TypeScript, so that not every child compiles it again.
 */
export const BARE_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: process.env['PATH'] ?? '',
  ...(process.env['NODE_COMPILE_CACHE'] === undefined ? {} : { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] }),
};

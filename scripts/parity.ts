/**
 * Checks the port against golden vectors: `node --conditions=vf-search-source scripts/parity.ts <directory>...`. Exit 0 if everything passed, 1 if anything
 * failed or there was nothing to play, 2 on a wrong call.
 */
import { checkDirectories } from '../test/parity/check-directories.ts';
import { closeSandbox } from '../test/parity/sandbox.ts';

process.exitCode = await checkDirectories(process.argv.slice(2), {
  print: (text) => void process.stdout.write(text),
  complain: (text) => void process.stderr.write(text),
});
await closeSandbox();

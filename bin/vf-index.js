#!/usr/bin/env node
// Starts vf-index from its compiled form. Plain JavaScript that an old Node can still read, so that it can say what is missing.
import { existsSync } from 'node:fs';
import module from 'node:module';

const entry = new URL('../dist/src/cli/vf-index.js', import.meta.url);
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 12)) {
  process.stderr.write(
    `vf-index: expected Node 22.12 or newer, got ${process.versions.node}; install a newer Node, or run it with npx in a clone\n`,
  );
  process.exitCode = 2;
} else if (!existsSync(entry)) {
  process.stderr.write('vf-index: expected the compiled package in dist/, found none; run `npm run build` first\n');
  process.exitCode = 2;
} else {
  if (module.enableCompileCache) module.enableCompileCache();
  await import(entry.href);
}

// Starts a command from its compiled form. Plain JavaScript that an old Node can still read, so that it can say what is missing.
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

export async function launch(name) {
  const entry = new URL(`../dist/src/cli/${name}.js`, import.meta.url);
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 12)) {
    return refuse(`${name}: Node 22.12 or newer is needed, but this is Node ${process.versions.node}; install a newer Node, or run ${ownNode()}`);
  }
  if (!existsSync(entry)) return refuse(`${name}: the compiled package is missing from dist/; run \`npm run build\` first`);
  module.enableCompileCache?.();
  await import(entry.href);
}

/** A clone brings a Node, which npx and npm scripts put first on PATH. */
function ownNode() {
  const node = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url));
  return existsSync(node) ? `${node} ${process.argv[1]}` : 'it with npx in a clone';
}

function refuse(line) {
  process.stderr.write(`${line}\n`);
  process.exitCode = 2;
}

// Starts a command from its compiled form. Plain JavaScript that an old Node can still read, so that it can say what is missing.
import { existsSync } from 'node:fs';
import module from 'node:module';

export async function launch(name) {
  const entry = new URL(`../dist/src/cli/${name}.js`, import.meta.url);
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 12)) {
    return refuse(
      `${name}: Node 22.12 or newer is needed, but this is Node ${process.versions.node}; install a newer Node, or run it with npx in a clone`,
    );
  }
  if (!existsSync(entry)) return refuse(`${name}: the compiled package is missing from dist/; run \`npm run build\` first`);
  module.enableCompileCache?.();
  await import(entry.href);
}

function refuse(line) {
  process.stderr.write(`${line}\n`);
  process.exitCode = 2;
}

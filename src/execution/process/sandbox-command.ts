/** Command lines of the sandboxes that are processes. */
import { existsSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';

export interface SandboxCommand {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * Python in namespaces of its own: no network, no files but Python's, read-only, a private /tmp of 1 MiB, no other processes, no capabilities, no user
 * namespaces within.
 * @param python a Python under /usr, or one with a prefix of its own (a virtual environment), which is shown to programs too
 */
export function bubblewrapCommand(bwrap: string, python: string): SandboxCommand {
  const shown = [...new Set(['/usr', ...prefixes(python).filter((prefix) => !prefix.startsWith('/usr'))])];
  const namespaces =
    '--unshare-all --unshare-user --disable-userns --uid 65534 --gid 65534 --cap-drop ALL --die-with-parent --new-session --hostname sandbox';
  const folders =
    '--size 1048576 --tmpfs /tmp --dir /dev --dev-bind /dev/null /dev/null --dev-bind /dev/urandom /dev/urandom --remount-ro / --chdir /tmp';
  const files = shown.flatMap((path) => ['--ro-bind', path, path]);
  const links = ['/lib', '/lib64', '/lib32', '/bin'].flatMap((path) => rootLink(path));
  const args = [namespaces.split(' '), files, links, folders.split(' '), [python]].flat();
  return { command: bwrap, args };
}

/** Python by itself: what the user may do, a program may do. */
export function bareCommand(python: string): SandboxCommand {
  return { command: python, args: [] };
}

/** Where Python's own files are: of the named command, and of the one that it links to. */
function prefixes(python: string): string[] {
  return [python, existsSync(python) ? realpathSync(python) : python].map((path) => dirname(dirname(path)));
}

/** /lib is a link into /usr where the two are merged, and else a folder that Python needs. */
function rootLink(path: string): string[] {
  if (!existsSync(path)) return [];
  const real = realpathSync(path);
  return real.startsWith('/usr/') ? ['--symlink', real.slice(1), path] : ['--ro-bind', path, path];
}

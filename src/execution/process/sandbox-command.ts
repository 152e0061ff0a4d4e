/** Command lines of the sandboxes that are processes. */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { systemCallFilter } from './system-calls.ts';

export interface SandboxCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** The program that it reads from descriptor 4. */
  readonly filter: Uint8Array | null;
  /** Processes of the sandbox itself, which come before Python's. */
  readonly processes: number;
  /** Size of its own /tmp; null if programs share that of the system. */
  readonly tmpBytes: number | null;
}

const TMP_BYTES = 2 ** 20;

/** No network, no other processes, no capabilities, and no user namespaces within; ends with this process. */
export const NAMESPACES =
  '--unshare-all --unshare-user --disable-userns --uid 65534 --gid 65534 --cap-drop ALL --die-with-parent --new-session --hostname sandbox'.split(
    ' ',
  );

/** The descriptor of the filter. */
export const FILTER = 4;

/**
 * Python in namespaces of its own: no network, no files but Python's, read-only, a private /tmp of 1 MiB, no other processes, no capabilities, no user
 * namespaces within, no memory other than that of its processes.
 * @param named a Python under /usr, or one with a prefix of its own (such as a virtual environment), which is shown to programs too. Throws ConfigError if there are
 * other files than Python's around it.
 */
export function bubblewrapCommand(bwrap: string, named: string): SandboxCommand {
  const real = realpathSync(named);
  // A link in a folder such as ~/bin has the user's files around it; the link of a virtual environment has Python's.
  const python = existsSync(join(prefixOf(named), 'pyvenv.cfg')) ? named : real;
  const shown = [...new Set(['/usr', ...[python, real].map(prefixOf).filter((prefix) => prefix !== '/usr' && !prefix.startsWith('/usr/'))])];
  if (!shown.every(holdsPython))
    throw new ConfigError(`${named} has no folder of its own, which programs could be shown. Choose a Python under /usr or a virtual environment`);
  const folders = `--size ${TMP_BYTES} --tmpfs /tmp --dir /dev --dev-bind /dev/null /dev/null --dev-bind /dev/urandom /dev/urandom --remount-ro / --chdir /tmp`;
  const files = shown.flatMap((path) => ['--ro-bind', path, path]);
  const filter = systemCallFilter(process.arch);
  const seccomp = filter === null ? [] : ['--seccomp', String(FILTER)];
  const args = [NAMESPACES, files, systemLinks(), folders.split(' '), seccomp, [python]].flat();
  return { command: bwrap, args, filter, processes: 2, tmpBytes: TMP_BYTES };
}

/** Python by itself: a program may do everything that the user may do. */
export function bareCommand(python: string): SandboxCommand {
  return { command: python, args: [], filter: null, processes: 0, tmpBytes: null };
}

/** What lies in /usr, by its names at the root. */
export function systemLinks(): string[] {
  return ['/lib', '/lib64', '/lib32', '/bin'].flatMap((path) => rootLink(path));
}

/** The folder of Python's own files. */
function prefixOf(python: string): string {
  return dirname(dirname(python));
}

function holdsPython(prefix: string): boolean {
  const libraries = join(prefix, 'lib');
  return prefix !== '/' && existsSync(libraries) && readdirSync(libraries).some((name) => name.startsWith('python3'));
}

/** /lib is a link into /usr if the two are merged, and otherwise a folder that Python needs. */
function rootLink(path: string): string[] {
  if (!existsSync(path)) return [];
  const real = realpathSync(path);
  return real.startsWith('/usr/') ? ['--symlink', real.slice(1), path] : ['--ro-bind', path, path];
}

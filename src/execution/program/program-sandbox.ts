/**
 * A program of the user in bubblewrap: it reads /usr and the folders that it needs, writes to its own folder only, and reaches one server on loopback and nothing else.
 * The sandbox has a network of its own. What the program sends to the server's port goes through a bridge in the sandbox to a local socket, and from there to the server.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { ConfigError, ExecutionError } from '../../core/errors.ts';
import { isInside } from '../../files/is-inside.ts';
import { BUBBLEWRAP } from '../process/process-executor.ts';
import { NAMESPACES, systemLinks } from '../process/sandbox-command.ts';
import { systemCallFilter } from '../process/system-calls.ts';
import type { ProgramFolder } from './program-folder.ts';

export interface ProgramSandbox {
  /** Files and folders that it may read, besides /usr. */
  readonly shown: readonly string[];
  /** What it reaches: one server on loopback, such as `http://127.0.0.1:4000`; nothing; or everything that this machine reaches. */
  readonly network: { readonly server: string } | 'none' | 'all';
}

export interface CagedCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly filter: Uint8Array | null;
  /** Processes of the sandbox itself, which come before the program's. */
  readonly processes: number;
}

/** Of /tmp, which holds what a program does not put into its folder. */
const TMP_BYTES = 64 * 2 ** 20;
const SYSTEM = `--ro-bind /usr /usr --ro-bind-try /etc/alternatives /etc/alternatives --size ${TMP_BYTES} --tmpfs /tmp --dir /dev`.split(' ');
/** Node, Bun and Rust find their own program there, and shells their open files. Read-only, because root may write settings of the kernel there without any capability. */
const PROC = [
  ...'--proc /proc --remount-ro /proc --symlink /proc/self/fd /dev/fd'.split(' '),
  ...['stdin', 'stdout', 'stderr'].flatMap((name, fd) => ['--symlink', `/proc/self/fd/${fd}`, `/dev/${name}`]),
];
const DEVICES = ['null', 'zero', 'random', 'urandom'].flatMap((name) => ['--dev-bind', `/dev/${name}`, `/dev/${name}`]);
/** Names of servers and their certificates, for a program that reaches more than one. */
const NETWORK_FILES = ['resolv.conf', 'hosts', 'nsswitch.conf', 'ssl', 'ca-certificates', 'pki'].flatMap((name) => [
  '--ro-bind-try',
  `/etc/${name}`,
  `/etc/${name}`,
]);
/** Connections of one program at once. */
const MOST_CONNECTIONS = 64;

// Runs in the sandbox. It is no module of its own, so that the sandbox need not show the package.
const BRIDGE = `
const { spawn } = require('node:child_process'), { connect, createServer } = require('node:net');
const own = process, { argv, exit } = own;
const [port, socket, command, ...args] = argv.slice(1);
const server = createServer((from) => {
  const to = connect(socket);
  from.on('error', () => to.destroy()).pipe(to).on('error', () => from.destroy()).pipe(from);
});
server.listen(Number(port), '127.0.0.1', () => {
  const child = spawn(command, args, { stdio: 'inherit' });
  child.on('error', ({ message }) => (own._rawDebug(message), exit(127)));
  child.on('exit', (code, signal) => (signal === null ? exit(code) : exit(128 + require('node:os').constants.signals[signal])));
  for (const name of ['SIGTERM', 'SIGINT']) own.on(name, () => child.kill(name));
});`;

let hasProc: boolean | null = null;

/** False on a machine that lets no sandbox mount /proc, such as most containers. Asks once. */
export function sandboxHasProc(): boolean {
  const tried = [...NAMESPACES, ...SYSTEM, ...systemLinks(), ...PROC, '/usr/bin/env', 'true'];
  return (hasProc ??= spawnSync(BUBBLEWRAP, tried, { stdio: 'ignore' }).status === 0);
}

/** Throws ExecutionError if bubblewrap is not installed. */
export function cagedCommand(command: readonly string[], folder: ProgramFolder, { shown, network }: ProgramSandbox): CagedCommand {
  if (!existsSync(BUBBLEWRAP))
    throw new ExecutionError(`${BUBBLEWRAP} does not exist. Install bubblewrap: sudo apt-get install bubblewrap`, {
      remedy: 'sudo apt-get install bubblewrap',
      endsRun: true,
    });
  const server = typeof network === 'string' ? null : network.server;
  const bridge = server === null ? [] : [process.execPath, '-e', BRIDGE, new URL(server).port, folder.socket];
  const read = [...new Set([...shown, ...(server === null ? [] : [process.execPath])])].filter((path) => !path.startsWith('/usr/'));
  const args = [
    ...NAMESPACES,
    ...(network === 'all' ? ['--share-net', ...NETWORK_FILES] : []),
    ...SYSTEM,
    ...systemLinks(),
    ...(sandboxHasProc() ? PROC : []),
    ...DEVICES,
    ...read.flatMap((path) => ['--ro-bind', path, path]),
    ...read.flatMap(secretFiles).flatMap((path) => ['--dev-bind', '/dev/null', path]),
    ...new Set([folder.work, folder.home, folder.tmp]).values().flatMap((path) => ['--bind', path, path]),
    ...(server === null ? [] : ['--ro-bind', folder.socket, folder.socket]),
    '--remount-ro',
    '/',
    '--chdir',
    folder.work,
  ];
  const filter = systemCallFilter(process.arch, true);
  const seccomp = filter === null ? [] : ['--seccomp', '4'];
  return { command: BUBBLEWRAP, args: [...args, ...seccomp, ...bridge, ...command], filter, processes: server === null ? 2 : 3 };
}

/** Passes on what the bridge of a sandbox sends. Dispose it when the program has ended. */
export async function openBridge(socket: string, server: string): Promise<AsyncDisposable> {
  const { hostname, port } = new URL(server);
  const open = new Set<{ destroy(): void }>();
  const bridge: Server = createServer((from) => {
    const to = connect(Number(port), hostname.replace(/^\[(.*)\]$/, '$1'));
    for (const [own, other] of [
      [from, to],
      [to, from],
    ] as const) {
      open.add(own);
      own.on('error', () => other.destroy());
      own.on('close', () => open.delete(own));
    }
    from.pipe(to).pipe(from);
  });
  bridge.maxConnections = MOST_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    bridge.once('error', reject);
    bridge.listen(socket, resolve);
  });
  return {
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => bridge.close(() => resolve()));
      for (const each of open) each.destroy();
      await closed;
    },
  };
}

/**
 * What a sandbox must show so that a command runs: the folder of its program's own files, the folders of the files that it names, and packages of Node above them.
 * A file that lies directly in the home folder, at the root or among temporary files is shown alone.
 * @param command the first is the absolute path of a program
 */
export function neededFolders(command: readonly string[]): string[] {
  const [program = '', ...words] = command;
  const files = words.filter((word) => word.startsWith('/') && existsSync(word));
  return [...new Set([...programFolders(program), ...files.flatMap((path) => [ownFolder(path), ...nodePackages(path)])])];
}

/** Throws ConfigError for a folder that holds more than a program's files. */
export function assertShowable(path: string): void {
  if (!existsSync(path)) throw new ConfigError(`${path}, which the sandbox is to show, does not exist. Correct its name`);
  if (isShared(realpathSync(path)))
    throw new ConfigError(`The sandbox does not show ${path}, which holds more than the program's files. Name a folder in it`);
}

function programFolders(program: string): string[] {
  return [...new Set([program, realpathSync(program)])].flatMap((path) => {
    const prefix = dirname(dirname(path));
    if (prefix === '/usr') return [];
    return [basename(dirname(path)) === 'bin' && !isShared(prefix) ? prefix : path];
  });
}

function ownFolder(path: string): string {
  const folder = statSync(path).isDirectory() ? path : dirname(path);
  return isShared(folder) ? path : folder;
}

function nodePackages(path: string): string[] {
  const found: string[] = [];
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder))
    for (const name of ['node_modules', 'package.json']) if (existsSync(join(folder, name))) found.push(join(folder, name));
  return found;
}

function isShared(folder: string): boolean {
  return [homedir(), tmpdir(), '/', '/etc', '/root', '/home', '/var', '/opt', '/usr/local'].some((path) => path === folder);
}

/** Installed packages and histories, which are large and hold no settings of the user. */
const NO_SETTINGS = ['node_modules', 'site-packages', '.git'];
/** Folders below a shown one that are looked into. */
const MOST_DEPTH = 4;

/** `.env`, `.envrc` and their kind, in which keys lie, or the file in the folder that such a name links to. */
function secretFiles(folder: string): string[] {
  const found = (path: string, depth: number): string[] =>
    readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
      const own = join(path, entry.name);
      if (entry.isDirectory()) return depth < MOST_DEPTH && !NO_SETTINGS.includes(entry.name) ? found(own, depth + 1) : [];
      if (!/^\.env(rc|\..*)?$/.test(entry.name) || !existsSync(own)) return [];
      const [root, real] = [realpathSync(folder), realpathSync(own)];
      return statSync(real).isFile() && isInside(root, real) ? [join(folder, relative(root, real))] : [];
    });
  return statSync(folder).isDirectory() && !NO_SETTINGS.includes(basename(folder)) ? found(folder, 0) : [];
}

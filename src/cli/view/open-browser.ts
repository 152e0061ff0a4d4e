import { spawn } from 'node:child_process';
import type { CommandContext } from '../command-line.ts';

/** Opens an address in the browser of the desktop. Without a browser it prints a line, and the command goes on. */
export function openBrowser(address: string, { note }: Pick<CommandContext, 'note'>): void {
  const [command, ...args] = { darwin: ['open', address], win32: ['explorer.exe', address] }[process.platform as string] ?? ['xdg-open', address];
  const refused = () => note('vf-view: no browser could be started; open the address yourself');
  const child = spawn(command!, args, { stdio: 'ignore', detached: true });
  child.on('error', refused);
  child.on('exit', (code) => (code === 0 ? undefined : refused()));
  child.unref();
}

/** Runs programs with the modules of scripts/nano-coder, in a plain python3. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';

const SCRIPTS = path.join(import.meta.dirname, '../../../scripts/nano-coder');
const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: SCRIPTS };

/** What the program prints, which is one JSON value. */
export function python(program: string): unknown {
  return JSON.parse(execFileSync('python3', ['-c', program], { env, encoding: 'utf8' })) as unknown;
}

export function runScript(name: string, options: readonly string[]): void {
  execFileSync('python3', [path.join(SCRIPTS, name), ...options], { env });
}

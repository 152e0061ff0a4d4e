/** Runs programs with the modules of scripts/nano-pages, in a plain python3. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';

const SCRIPTS = path.join(import.meta.dirname, '../../../scripts/nano-pages');
const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: SCRIPTS };

/** What the program prints, which is one JSON value. It can use `json`, and `given` for `input`. */
export function python(program: string, input: unknown = null): unknown {
  const whole = `import json, sys\ngiven = json.load(sys.stdin)\n${program}`;
  return JSON.parse(execFileSync('python3', ['-c', whole], { env, encoding: 'utf8', input: JSON.stringify(input) })) as unknown;
}

export function runScript(name: string, options: readonly string[]): void {
  execFileSync('python3', [path.join(SCRIPTS, name), ...options], { env });
}

/** Runs programs with the modules of scripts/nano-vlm, in a plain python3. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';

export const SCRIPTS = path.join(import.meta.dirname, '../../../scripts/nano-vlm');
const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: SCRIPTS };

/** What the program prints, which is one JSON value. It can use `json`, and `given` for `input`. */
export function python(program: string, input: unknown = null): unknown {
  const printed = execFileSync('python3', ['-c', `import json, sys\ngiven = json.load(sys.stdin)\n${program}`], {
    env,
    encoding: 'utf8',
    input: JSON.stringify(input),
  });
  return JSON.parse(printed) as unknown;
}

export function runScript(name: string, options: readonly string[]): void {
  execFileSync('python3', [path.join(SCRIPTS, name), ...options], { env });
}

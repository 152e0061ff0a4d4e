/** Runs programs with the modules of `recipes`, in a plain python3. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';

export const ROOT = path.join(import.meta.dirname, '../..');
/** For programs that import `recipes`. */
export const pythonEnv = { ...process.env, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: ROOT };

/** What the program prints, which is one JSON value. It can use `json`, and `given` for `input`. */
export function python(program: string, input: unknown = null): unknown {
  const printed = execFileSync('python3', ['-c', `import json, sys\ngiven = json.load(sys.stdin)\n${program}`], {
    env: pythonEnv,
    encoding: 'utf8',
    input: JSON.stringify(input),
    maxBuffer: 1 << 26,
  });
  return JSON.parse(printed) as unknown;
}

/** Runs a module as a command. @param name `recipes.base.world` */
export function runModule(name: string, options: readonly string[]): void {
  execFileSync('python3', ['-m', name, ...options], { env: pythonEnv });
}

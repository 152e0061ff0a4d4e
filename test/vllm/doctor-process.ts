/** vf-doctor as a process, with the Python of the real vLLM. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect } from 'vitest';
import { PYTHON } from './train-process.ts';

/** Checks that no value of `variables`, which hold keys, is printed. */
export async function doctor(args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
  const command = [join(import.meta.dirname, '../../src/cli/vf-doctor.ts'), ...args, '--python', PYTHON, '--json'];
  const { code, stdout } = await new Promise<{ code: unknown; stdout: string }>((resolve) => {
    execFile(process.execPath, command, { env: { ...process.env, ...variables } }, (error, text) =>
      resolve({ code: error?.code ?? 0, stdout: text }),
    );
  });
  for (const key of Object.values(variables)) expect(stdout).not.toContain(key);
  const { findings } = JSON.parse(stdout) as { findings: { name: string; state: string; text: string }[] };
  return { code, of: (name: string) => findings.find((finding) => finding.name === name) };
}

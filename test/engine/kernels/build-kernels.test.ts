import { execFile } from 'node:child_process';
import { appendFileSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../..');

describe('scripts/build-kernels.mjs', () => {
  let folder: string;
  const outputs = () => join(folder, 'src/engine/kernels/wasm');
  const timesOf = () => readdirSync(outputs()).map((name) => statSync(join(outputs(), name), { bigint: true }).mtimeNs);

  const build = () =>
    new Promise<{ readonly code: number; readonly stderr: string }>((resolve) => {
      const child = execFile(process.execPath, [join(folder, 'scripts/build-kernels.mjs')], (_error, _stdout, stderr) =>
        resolve({ code: child.exitCode ?? -1, stderr }),
      );
    });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'build-kernels-'));
    cpSync(join(root, 'scripts/build-kernels.mjs'), join(folder, 'scripts/build-kernels.mjs'));
    cpSync(join(root, 'src/engine/kernels/assembly'), join(folder, 'src/engine/kernels/assembly'), { recursive: true });
  });

  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('writes both builds, the same bytes everywhere, and rewrites them only for changed sources', async () => {
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    expect(await build()).toEqual({ code: 0, stderr: '' });
    for (const name of ['relaxed.wasm', 'plain.wasm']) {
      expect(WebAssembly.validate(readFileSync(join(outputs(), name)))).toBe(true);
      expect(readFileSync(join(outputs(), name)).equals(readFileSync(join(root, 'src/engine/kernels/wasm', name)))).toBe(true);
    }
    const before = timesOf();
    await build();
    expect(timesOf()).toEqual(before);
    appendFileSync(join(folder, 'src/engine/kernels/assembly/index.ts'), '\nexport function broken(): i32 { return wrong; }\n');
    const { code, stderr } = await build();
    expect(code).toBe(1);
    expect(stderr).toContain("Cannot find name 'wrong'");
    expect(timesOf()).toEqual(before);
  }, 60_000);

  it('says what to do where the compiler is not installed', async () => {
    const { code, stderr } = await build();
    expect(code).toBe(1);
    expect(stderr).toMatch(/^Could not load the package assemblyscript, .*Run npm ci/);
  });
});

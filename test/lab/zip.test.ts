import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { unzipped } from '../../scripts/lab/lab-page.ts';
import { zipOf } from '../../web/lab/run/zip.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const bytesOf = async (blob: Blob) => Buffer.from(await blob.arrayBuffer());

describe('zipOf', () => {
  it('holds every file as it was {names are distinct}', async () => {
    const file = fc.record({ name: fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }), bytes: fc.uint8Array({ maxLength: 300 }) });
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(file, { selector: ({ name }) => name, maxLength: 5 }), async (files) => {
        const given = files.map(({ name, bytes }) => ({ name: name.toWellFormed(), bytes: Uint8Array.from(bytes) }));
        const found = unzipped(await bytesOf(zipOf(given)));
        expect([...found].map(([name, bytes]) => [name, [...bytes]])).toEqual(given.map(({ name, bytes }) => [name, [...bytes]]));
      }),
    );
  });

  it("is an archive to another program, which checks each file's checksum", async () => {
    const path = join(folder.path, 'adapter.zip');
    const files = [
      { name: 'adapter_config.json', bytes: new TextEncoder().encode('{"r": 8}\n') },
      { name: 'adapter_model.safetensors', bytes: Uint8Array.from({ length: 70_000 }, (_, i) => (i * 31) & 255) },
    ];
    writeFileSync(path, await bytesOf(zipOf(files)));
    const script =
      'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print([(i.filename, i.file_size) for i in z.infolist()])';
    const printed = execFileSync('python3', ['-c', script, path], { encoding: 'utf8' });
    expect(printed.trim()).toBe("[('adapter_config.json', 9), ('adapter_model.safetensors', 70000)]");
  });
});

import { appendFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileTarget, runStage } from '../../../src/rounds/driver/run-stage.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { quietContext } from '../../cli/rounds/quiet-context.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-stage-command-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const context = quietContext();

describe('runStage', () => {
  it('writes nothing if an input, such as the trace of a run that goes on, changed while the stage read it', async () => {
    const path = join(folder, 'trace.jsonl');
    writeFileSync(path, '{}\n');
    const target = fileTarget('extract', join(folder, 'out.jsonl'));
    const result = { rule: {}, counts: {}, outputs: [{ name: 'out.jsonl', lines: ['{}'] }] };
    const inputs = [{ role: 'trace', path }];
    const growing = async () => {
      appendFileSync(path, '{}\n');
      return result;
    };
    await expect(runStage({ target, inputs, work: growing }, context)).rejects.toThrow(
      new ConfigError(`${path} changed while extract read it; wait until its run has ended, then run extract again`),
    );
    expect(readdirSync(folder)).toEqual(['trace.jsonl']);
    // A Ctrl-C now ends the command; one after the files are written changes nothing.
    expect(context.saved).toBeUndefined();
    await runStage({ target, inputs, work: async () => result }, context);
    expect(readdirSync(folder)).toContain('out.jsonl');
    expect(context.saved).toBe(folder);
  });
});

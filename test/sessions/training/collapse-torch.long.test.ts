/**
 * A learning rate that destroys the policy, over the real torch worker.
 * @module-tag long
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { skipReason, torchPython } from '../../trainer/gradients/torch/torch-python.ts';
import { finished, TrainFolder } from '../../vllm/train-process.ts';

const ROWS = Array.from({ length: 16 }, (_, i) => {
  const subject = `${['river', 'mayor', 'flag', 'bridge', 'tower'][i % 5]}`;
  return { prompt: ` Ask about a ${subject}.`, completion: ` <think> I should look this up. </think> <search> the ${subject} ${i} </search>` };
});

describe.skipIf(torchPython.path === null)(`the alarm of a collapsed policy, over the torch worker${skipReason}`, { timeout: 600_000 }, () => {
  it.each([
    ['rollouts', ['-n', '8', '-r', '4', '--steps', '4', '--set', 'backend.kind=torch', '--lr', '30']],
    ['supervised steps', ['--sft', 'rows.jsonl', '--set', 'sft.batch_size=4', '--steps', '4', '--lr', '30']],
  ])('comes once, and the summary advises a new run at a lower rate: %s', async (_, words: readonly string[]) => {
    using folder = new TrainFolder();
    writeFileSync(join(folder.path, 'rows.jsonl'), ROWS.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const command = ['search-r1', '--preset', 'laptop', '--set', 'evaluation.every=0', '--python', torchPython.path!, '-o', '.', ...words];
    const summary = await finished<{ readonly collapse: { readonly text: string; readonly flags: readonly string[] } }>(
      folder.runInProcess(command, {}),
    );
    const alarms = folder
      .run()!
      .events()
      .filter(({ kind, message }) => kind === 'alarm' && /has collapsed/.test(message));
    expect(alarms).toHaveLength(1);
    expect(alarms[0]!.message).toContain(summary.collapse.text);
    expect(summary.collapse.flags).toEqual(['--lr', '0.001']);
  });
});

import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { trainingDryRun } from '../../../src/sessions/training/training-dry-run.ts';
import { resolveTraining } from '../../../src/sessions/training/resolve-training.ts';
import { parseTrain } from '../../cli/train/parse-train.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

const ENVIRONMENT = `
import { Dataset, Rubric, SingleTurnEnv } from 'vf-search';
export function loadEnvironment() {
  const row = { exampleId: 'a', prompt: [{ role: 'user', content: 'Who?' }], answer: 'I' };
  return new SingleTurnEnv({ id: 'one', train: new Dataset('one', [row]), eval: new Dataset('one', [row]), notices: ['Only one question.'],
    rubric: new Rubric({ funcs: [function one() { return 1; }] }) });
}`;

async function dryRun(folder: string, flags: readonly string[], note: (line: string) => void = () => {}, code = ENVIRONMENT): Promise<string> {
  const path = join(folder, 'environment.mjs');
  writeFileSync(path, code);
  const parsed = parseTrain([path, ...flags, '--dry-run']);
  const setup = await resolveTraining(parsed, { variables: {}, environmentFile: join(folder, '.env') });
  return (await trainingDryRun(setup, { variables: {}, note, signal: new AbortController().signal })).text;
}

describe('trainingDryRun', () => {
  it('says that a length is left to the model where the environment sets none', async () => {
    using folder = new TemporaryFolder();
    const text = await dryRun(folder.path, ['-m', 'M', '-b', 'http://127.0.0.1:9/v1', '-n', '1']);
    expect(text).not.toContain('Infinity');
    expect(text).toMatch(/^lengths +.*the model's window$/m);
  });

  it('counts no rollouts of a step where a source of the environment decides them', async () => {
    using folder = new TemporaryFolder();
    const flags = ['-m', 'M', '-b', 'http://127.0.0.1:9/v1', '-n', '1'];
    expect(await dryRun(folder.path, flags)).toMatch(/^a step +1 row × 8 rollouts = 8, of /m);
    using other = new TemporaryFolder();
    const text = await dryRun(other.path, flags, undefined, `${ENVIRONMENT}\nexport const createSource = () => {};`);
    expect(text).toMatch(/^a step +as the source of one plays it, with examples_per_step 1, rollouts_per_example 8, of /m);
  });

  it('names the flags of a server that shows images only where the environment shows some', async () => {
    using folder = new TemporaryFolder();
    const flags = ['-m', 'M', '-b', 'http://127.0.0.1:9/v1', '-n', '1'];
    expect(await dryRun(folder.path, flags)).toMatch(/^server needs +--enable-lora --max-lora-rank \d+ --max-loras \d+ and VLLM/m);
    using other = new TemporaryFolder();
    const seen = ENVIRONMENT.replace("id: 'one'", "id: 'one', images: { put: () => {}, get: () => {} }");
    expect(await dryRun(other.path, flags, undefined, seen)).toMatch(
      /^server needs .*--max-loras \d+ --enable-scale-out --limit-mm-per-prompt '\{"image": 32, "video": 0\}' and VLLM/m,
    );
  });

  it('names the service that samples and trains, and no flags of vLLM, where a run trains through the Tinker API', async () => {
    using folder = new TemporaryFolder();
    const text = await dryRun(folder.path, ['-m', 'nano-base', '--tinker', 'base', '--set', 'backend.base_url=http://127.0.0.1:9', '-n', '1']);
    expect(text).toMatch(/^policy +base at http:\/\/127\.0\.0\.1:9, which samples and trains$/m);
    expect(text).not.toContain('server needs');
  });

  it('refuses a file of worked problems that is not there, or has none', async () => {
    using folder = new TemporaryFolder();
    const problems = join(folder.path, 'limo.jsonl');
    const flags = ['-m', 'M', '-b', 'http://127.0.0.1:9/v1', '-n', '1', '--set', `sft.problems=${problems}`, '--set', 'sft.steps=2'];
    await expect(dryRun(folder.path, flags)).rejects.toThrow('limo.jsonl does not exist; correct its path');
    writeFileSync(problems, '{"question": "q"}\n');
    await expect(dryRun(folder.path, flags)).rejects.toThrow('limo.jsonl');
    writeFileSync(problems, '{"question": "q", "solution": "s", "answer": "a"}\n');
    expect(await dryRun(folder.path, flags)).toMatch(/^supervised +2 supervised steps of /m);
  });

  it('shows the supervised steps of a run that plays nothing, and neither rollouts nor a server', async () => {
    using folder = new TemporaryFolder();
    const data = join(folder.path, 'shown.jsonl');
    writeFileSync(data, `${JSON.stringify({ prompt: 'Who?', completion: ' I' })}\n`.repeat(8));
    const text = await dryRun(folder.path, ['-m', 'nano-base', '--sft', data, '--set', 'sft.batch_size=4']);
    expect(text).toMatch(/^policy +none: without a policy server, nothing is played$/m);
    expect(text).toMatch(/^supervised +2 supervised steps of up to 4 rows of shown\.jsonl, learning rate /m);
    expect(text).not.toMatch(/^(a step|loss|server needs) /m);
  });

  it.each([
    ['without an answer', { messages: [{ role: 'user', content: 'Who?' }] }, ['--embedded'], 'has no message of the assistant'],
    ['that begin with one', { messages: [{ role: 'assistant', content: 'I' }] }, ['-b', 'http://127.0.0.1:9/v1'], 'begins with a message of the'],
    ['with ids beyond the vocabulary', { token_ids: [1, 2, 99_999], loss_mask: [0, 1, 1] }, [], 'has the token id 99999'],
    ['of another tokenizer', { token_ids: [1, 2], loss_mask: [0, 1], tokenizer_hash: 'f00' }, ['-b', 'http://127.0.0.1:9/v1'], 'another tokenizer'],
    [
      'that show a picture',
      {
        messages: [
          { role: 'user', content: [{ image: 'a.png' }] },
          { role: 'assistant', content: 'I' },
        ],
      },
      [],
      'sft.images',
    ],
  ])('refuses supervised rows %s, as the run does', async (_, row, policy, problem) => {
    using folder = new TemporaryFolder();
    const data = join(folder.path, 'shown.jsonl');
    const good = JSON.stringify({ prompt: 'Who?', completion: ' I' });
    writeFileSync(data, [good, good, JSON.stringify(row)].join('\n'));
    await expect(dryRun(folder.path, ['-m', 'nano-base', ...policy, '--sft', data])).rejects.toThrow(problem);
    await expect(dryRun(folder.path, ['-m', 'nano-base', ...policy, '--sft', data])).rejects.toThrow('shown.jsonl:3');
  });

  it('refuses supervised rows that only the template of the model refuses', async () => {
    using folder = new TemporaryFolder();
    const data = join(folder.path, 'shown.jsonl');
    writeFileSync(
      data,
      JSON.stringify({
        messages: [
          { role: 'tool', content: 'I' },
          { role: 'assistant', content: 'I' },
        ],
      }),
    );
    for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json'])
      copyFileSync(join(import.meta.dirname, '../../../models/nano-base', name), join(folder.path, name));
    writeFileSync(join(folder.path, 'chat_template.jinja'), "{{ raise_exception('only users may speak') }}");
    await expect(dryRun(folder.path, ['-m', folder.path, '--sft', data])).rejects.toThrow('only users may speak');
  });

  it('gives the notices that a run prints: those of the environment, and that nothing is ever clipped', async () => {
    using folder = new TemporaryFolder();
    const notices: string[] = [];
    await dryRun(folder.path, ['-m', 'M', '-b', 'http://127.0.0.1:9/v1', '-n', '1', '--set', 'algorithm.old_log_probs=trainer'], (line) =>
      notices.push(line),
    );
    expect(notices).toEqual([
      'Only one question.',
      expect.stringMatching(/^The evaluation rows are training rows; /),
      expect.stringMatching(/^No token can ever be clipped: /),
    ]);
  });

  it('names the loss that the run takes', async () => {
    using folder = new TemporaryFolder();
    const text = await dryRun(folder.path, ['-m', 'M', '-b', 'http://127.0.0.1:9/v1', '-n', '1', '--set', 'algorithm.loss.use="nll"']);
    expect(text).toMatch(/^loss +nll, learning rate /m);
  });
});

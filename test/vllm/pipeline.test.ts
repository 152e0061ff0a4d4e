/** The document's pipeline, unchanged, with a real vLLM and a search server of this package: parameters in `extra_body`, stop strings, history of prompts. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { pipelineInBackground, serving } from '../cli/pipeline/pipeline-process.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

const SEARCH_O1 = 'examples/search_o1.yaml';

interface Result {
  readonly questions: number;
  readonly failed: readonly unknown[];
  readonly variables: Readonly<Record<string, unknown>>;
}

describe('the pipeline of the document on a real vLLM', () => {
  it('answers every question: the model generates, the server searches, the metrics are means over all', async () => {
    using folder = new TemporaryFolder();
    await using retriever = await serving(['retrieve', '--port', '0'], folder.path);
    expect(await pipelineInBackground(['build', SEARCH_O1], folder.path)).toMatchObject({ status: 0 });
    const sets = {
      'generation.base_url': inject('vllmTemplateUrl'),
      'generation.model_name': 'nano-base',
      'generation.sampling_params.max_tokens': '48',
      'retriever.retriever_url': new URL(retriever.url).origin,
      'evaluation.save_path': 'null',
    };
    const flags = Object.entries(sets).flatMap(([key, value]) => ['--set', `${key}=${value}`]);
    const run = await pipelineInBackground(['run', SEARCH_O1, ...flags, '--json'], folder.path);
    expect(run).toMatchObject({ status: 0, stderr: expect.not.stringContaining('failed') });
    const runs = join(folder.path, 'outputs/pipelines/search_o1');
    const [name] = readdirSync(runs);
    const { questions, failed, variables } = JSON.parse(readFileSync(join(runs, name!, 'result.json'), 'utf8')) as Result;
    expect({ questions, failed }).toEqual({ questions: 2, failed: [] });
    for (const answer of variables['ans_ls'] as string[]) expect(answer).not.toBe('');
    expect(Object.keys(variables['eval_res'] as object)).toContain('avg_acc');
  });
});

/** Commands worth typing after a training run. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { TrainingSummary } from '../../schemas/training-summary.ts';
import { displayPath } from '../eval/render-summary.ts';
import { shellCommand } from '../shell-text.ts';

export function nextTrainingCommands(
  summary: TrainingSummary,
  { environment, policy, lora }: Pick<TrainingConfig, 'environment' | 'policy' | 'lora'>,
): { why: string; command: string }[] {
  const { resumable, directory, adapter, model, baseModel } = summary;
  if (resumable) return [{ why: 'continue this run', command: resumeCommand(directory) }];
  if (adapter === null) return [];
  const args = { ...environment.args, ...environment.evalArgs };
  const environmentWords = [environment.id, ...(Object.keys(args).length === 0 ? [] : ['-a', JSON.stringify(args)])];
  const evaluate = (baseUrl: string) => `npx vf-eval ${shellCommand([...environmentWords, '-p', 'vllm', '-b', baseUrl, '-m', model])}`;
  const [baseUrl] = policy.baseUrl === null ? [] : [policy.baseUrl].flat();
  if (baseUrl !== undefined) return [{ why: 'evaluate what serves now', command: evaluate(baseUrl) }];
  // The server that the run started is gone, and its adapter with it.
  const serve = [
    'vllm',
    'serve',
    baseModel,
    '--enable-lora',
    '--max-lora-rank',
    String(lora.rank),
    '--lora-modules',
    `${model}=${displayPath(adapter)}`,
  ];
  return [
    { why: 'serve the adapter', command: shellCommand(serve) },
    { why: 'then evaluate it', command: evaluate('http://127.0.0.1:8000/v1') },
  ];
}

export function resumeCommand(directory: string): string {
  return `npx vf-train ${shellCommand(['-R', displayPath(directory)])}`;
}

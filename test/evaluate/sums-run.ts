/** One evaluation of the small world in a process of its own: `sums-run.ts <directory> '<options as JSON>'`. Prints the summary, or the error. */
import { setTimeout as sleep } from 'node:timers/promises';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import type { EvaluationOptions } from '../../src/evaluate/evaluation-options.ts';
import { sumsClient, sumsEnvironment, sumsOptions, sumsTurn } from './sums-world.ts';

const {
  rows = 6,
  turnMs = 0,
  padding = 0,
  traces = false,
  ...changes
} = JSON.parse(process.argv[3] ?? '{}') as Partial<EvaluationOptions> & {
  rows?: number;
  turnMs?: number;
  padding?: number;
  traces?: boolean;
};
try {
  const turns = async (turn: Parameters<typeof sumsTurn>[0]) => {
    await sleep(turnMs);
    return turn.index === 0 ? 'hm, '.padEnd(4 + padding, '.') : sumsTurn(turn);
  };
  const { summary, interrupted } = await recordEvaluation(
    sumsOptions(process.argv[2]!, {
      environment: sumsEnvironment({ rows, traces }),
      client: sumsClient({ turns }),
      onEvent: (event) => void process.stderr.write(`${event.type}\n`),
      ...changes,
    }),
  );
  process.stdout.write(JSON.stringify({ summary, interrupted }));
} catch (error) {
  process.stdout.write(JSON.stringify({ name: (error as Error).name, message: (error as Error).message }));
  process.exitCode = 1;
}

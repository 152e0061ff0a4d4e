/** Calls a function of the library as a command, for doors.test.ts: its name and its options as JSON; an error ends it as it ends a command. */
import { evaluate, loadEnvironment, startEpisode, train } from '../../src/index.ts';
import { openGrpoTrainer } from '../../src/trainer.ts';

interface Asked {
  readonly environment: string;
  readonly args: Record<string, unknown>;
  readonly roles?: Record<string, string>;
  /** Of a training. */
  readonly rollouts?: object;
}

const [name, text] = process.argv.slice(2) as [keyof typeof DOORS, string];
const { environment, args, rollouts, ...options } = JSON.parse(text) as Asked;
const trained = {
  environment,
  args,
  preset: 'laptop',
  settings: {
    rollouts: { examplesPerStep: 2, ...rollouts },
    roles: Object.fromEntries(Object.entries(options.roles ?? {}).map(([role, use]) => [role, { use }])),
  },
} as const;
const DOORS = {
  evaluate: () => evaluate({ environment, args, policy: { provider: 'baseline' }, rows: 1, ...options }),
  train: async () => {
    const { reason, message } = await train({ ...trained, steps: 1 });
    if (reason !== 'finished') throw new Error(`${reason}: ${message}`);
  },
  openGrpoTrainer: async () => {
    await using trainer = await openGrpoTrainer(trained);
    await trainer.generate([trainer.environment.train.at(0)], { rolloutsPerRow: 2 });
  },
  startEpisode: async () => {
    const loaded = await loadEnvironment(environment, args);
    await startEpisode(loaded, loaded.eval.at(0));
  },
};
try {
  await DOORS[name]();
  process.exit(0);
} catch (error) {
  const { name: kind, message } = error as Error;
  process.stderr.write(`${name}: ${kind === 'ConfigError' ? '' : `${kind}: `}${message}\n`);
  process.exit(2);
}

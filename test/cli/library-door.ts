/** Calls a function of the library as a command, for doors.test.ts: its name and its options as JSON; an error ends it as it ends a command. */
import { evaluate, train } from '../../src/index.ts';

const [name, text] = process.argv.slice(2) as [keyof typeof DOORS, string];
const { environment, args, ...options } = JSON.parse(text) as { environment: string; args: Record<string, unknown>; roles?: Record<string, string> };
const DOORS = {
  evaluate: () => evaluate({ environment, args, policy: { provider: 'baseline' }, rows: 1, ...options }),
  train: () => {
    const roles = Object.fromEntries(Object.entries(options.roles ?? {}).map(([role, use]) => [role, { use }]));
    return train({ environment, args, preset: 'laptop', steps: 1, settings: { rollouts: { examplesPerStep: 2 }, roles } });
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

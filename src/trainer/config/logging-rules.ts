/** Names that Weights & Biases would refuse when `wandb sync` uploads the run: the checks of its client 0.31, and its server's limits. */
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import type { ConfigRule } from './check-config.ts';

const MOST_NAME = 128;
const MOST_TAG = 64;
const FORBIDDEN = /[/\\#?%:\p{Cc}]/u;

type Wandb = NonNullable<TrainingConfigWire['logging']['wandb']>;

const NAMES: readonly { readonly key: 'project' | 'entity' | 'group'; readonly isPath: boolean }[] = [
  // Both are parts of the page's address.
  { key: 'project', isPath: true },
  { key: 'entity', isPath: true },
  { key: 'group', isPath: false },
];

export const LOGGING_RULES: readonly ConfigRule[] = [
  ...NAMES.map(({ key, isPath }): ConfigRule => ({
    key: `logging.wandb.${key}`,
    wrong: ({ logging: { wandb } }) => nameFault(wandb?.[key] ?? null, isPath) !== null,
    problem: ({ logging: { wandb } }) =>
      `logging.wandb.${key} ${nameFault(wandb?.[key] ?? null, isPath)}, which Weights & Biases refuses; got ${shown(wandb?.[key] ?? '')}`,
  })),
  {
    key: 'logging.wandb.tags',
    wrong: ({ logging }) => longTag(logging.wandb) !== undefined,
    problem: ({ logging }) =>
      `logging.wandb.tags may have up to ${MOST_TAG} characters each, got ${shown(longTag(logging.wandb) ?? '')}, which Weights & Biases refuses`,
  },
];

/** What is wrong with a name, as the end of `the name ...`; null if nothing is. */
function nameFault(name: string | null, isPath: boolean): string | null {
  if (name === null) return null;
  if (name.trim() === '') return 'is empty';
  if (name.length > MOST_NAME) return `has ${name.length} characters, more than ${MOST_NAME}`;
  const found = isPath ? FORBIDDEN.exec(name) : null;
  return found === null ? null : `contains ${JSON.stringify(found[0])} (none of / \\ # ? % : may occur)`;
}

function longTag(wandb: Wandb | null): string | undefined {
  return (wandb?.tags ?? []).find((tag) => tag.length > MOST_TAG);
}

function shown(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

/** A model that knows only one world gets questions about that world unless the user names others. */
import { bundledName } from '../data/bundled-models.ts';

export interface ModelWorld {
  /** Default arguments of the environment; given ones override them. */
  readonly args: Readonly<Record<string, unknown>>;
  /** Notice for the user. */
  readonly notice: string;
}

/** Each of these sets the source of questions or passages. */
const DATA_ARGUMENTS = ['dataset', 'corpus', 'retriever_url', 'retrieverUrl'];

/** Null if the model knows more, the environment is another one, or the arguments set their own source. */
export function modelWorld(
  modelDirectory: string,
  { environmentId, args }: { readonly environmentId: string; readonly args: Readonly<Record<string, unknown>> },
): ModelWorld | null {
  const name = bundledName(modelDirectory);
  if (name !== 'nano-base' || environmentId !== 'search-r1' || DATA_ARGUMENTS.some((key) => (args[key] ?? null) !== null)) return null;
  const notice = `${name} knows only the bundled fact world, so the data set is fact-world; choose another with -a '{"dataset": "nq-mini"}'`;
  return { args: { dataset: 'fact-world' }, notice };
}

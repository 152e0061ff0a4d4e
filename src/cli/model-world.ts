/** A model that knows one world only plays questions about that world where nobody names others. */
import { bundledName } from './bundled-model.ts';

export interface ModelWorld {
  /** Arguments of the environment, under those that were given. */
  readonly args: Readonly<Record<string, unknown>>;
  /** What the user should read. */
  readonly notice: string;
}

/** Any of them says where questions or passages come from. */
const DATA_ARGUMENTS = ['dataset', 'corpus', 'retriever_url', 'retrieverUrl'];

/** Null where the model knows more, the environment asks other questions, or the arguments name their own. */
export function modelWorld(
  modelDirectory: string,
  { environmentId, args }: { readonly environmentId: string; readonly args: Readonly<Record<string, unknown>> },
): ModelWorld | null {
  const name = bundledName(modelDirectory);
  if (name !== 'nano-base' || environmentId !== 'search-r1' || DATA_ARGUMENTS.some((key) => (args[key] ?? null) !== null)) return null;
  const notice = `${name} knows the names of the bundled fact world and nothing else, so dataset fact-world is taken; -a '{"dataset": "nq-mini"}' names another`;
  return { args: { dataset: 'fact-world' }, notice };
}

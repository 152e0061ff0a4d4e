/** The bundled model of an environment. One that knows a single world gets questions about that world unless the user names others. */
import { bundledName } from '../data/bundled-models.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { LAPTOP, ownPreset } from './presets.ts';

export interface ModelWorld {
  /** Default arguments of the environment; given ones override them. */
  readonly args: Readonly<Record<string, unknown>>;
  /** Notice for the user. */
  readonly notice: string;
}

/** Each of these sets the source of questions or passages. */
const DATA_ARGUMENTS = ['dataset', 'corpus', 'retriever_url', 'retrieverUrl'];

/** The model of the environment's own preset `laptop`, by its bundled name or path; null if it brings none. */
export function laptopModel(environmentId: string): string | null {
  return ownLaptop(environmentId)?.model ?? null;
}

/** Null if the model is not that of the environment's preset `laptop`, knows more than one world, or the arguments set their own source. */
export function modelWorld(
  modelDirectory: string,
  { environmentId, args }: { readonly environmentId: string; readonly args: Readonly<Record<string, unknown>> },
): ModelWorld | null {
  const name = bundledName(modelDirectory);
  if (name === null || DATA_ARGUMENTS.some((key) => (args[key] ?? null) !== null)) return null;
  const { model, world } = ownLaptop(environmentId) ?? { model: null, world: {} };
  if (name !== model || Object.keys(world).length === 0) return null;
  const list = Object.entries(world).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  const notice = `${name} knows only the world of the preset ${LAPTOP}, so ${list.join(', ')}. Choose other questions with -a '{"dataset": "nq-mini"}'.`;
  return { args: world, notice };
}

function ownLaptop(environmentId: string): { readonly model: string | null; readonly world: ModelWorld['args'] } | null {
  const preset = ownPreset(LAPTOP, environmentId);
  if (preset === null) return null;
  const path = fieldsOf(preset.table['model'])['path'];
  return { model: typeof path === 'string' ? path : null, world: preset.world };
}

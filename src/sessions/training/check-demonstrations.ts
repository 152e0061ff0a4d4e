/** Checks every supervised row before a server or a worker starts, by the code that tokenises the row in the run. */
import { createHash } from 'node:crypto';
import type { Environment } from '../../core/environment.ts';
import type { ImageStore } from '../../core/message.ts';
import { modelFacts } from '../../files/model-facts.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { assertInVocabulary } from '../../trainer/sources/assert-in-vocabulary.ts';
import { demonstrationOf, type DemonstrationTokenizer } from '../../trainer/sources/demonstration.ts';
import type { Demonstrations } from '../../trainer/sources/read-demonstrations.ts';
import { localTokenizerHash } from '../policy/local-tokenizer-hash.ts';
import { modelFolder } from '../policy/model-folder.ts';
import { picturesOf } from './demonstration-pictures.ts';

/** A token for each text: what is wrong with a row itself needs no tokenizer, which may be the server's. */
const STAND_IN: Omit<DemonstrationTokenizer, 'tokenizerHash' | 'turnFormat'> = {
  render: async () => ({ ids: Int32Array.of(0), images: [] }),
  renderNext: async () => ({ ids: Int32Array.of(0), images: [] }),
  encode: async (text) => (text === '' ? new Int32Array() : Int32Array.of(0)),
  closingTokenId: 0,
};

/** Keeps no picture: the run puts them into its folder. */
const NO_STORE: ImageStore = {
  put: async (bytes, image) => ({ ...image, sha256: createHash('sha256').update(bytes).digest('hex') }),
  get: () => Promise.reject(new Error('Nothing shows the pictures of a check')),
};

/** Rejects with ConfigError for the first row that the run would refuse, unless only its template refuses it. */
export async function checkDemonstrations(
  { training, validation }: Demonstrations,
  { config, environment }: { readonly config: TrainingConfig; readonly environment: Environment },
  { variables, signal }: { readonly variables: Readonly<Record<string, string | undefined>>; readonly signal: AbortSignal },
): Promise<void> {
  const folder = modelFolder(config.model.path, variables);
  const { vocabularySize } = modelFacts(folder);
  const tokenizer: DemonstrationTokenizer = {
    ...STAND_IN,
    ...(await picturesOf(config, environment.images === undefined ? {} : { images: NO_STORE }, null)),
    tokenizerHash: await localTokenizerHash(folder),
    turnFormat: environment.turnFormat,
  };
  for (const demonstration of [...training, ...validation]) {
    signal.throwIfAborted();
    const { ids } = await demonstrationOf(demonstration, tokenizer);
    if ('token_ids' in demonstration.row) assertInVocabulary(ids, vocabularySize, demonstration.place);
  }
}

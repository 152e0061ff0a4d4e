/** The requests of `POST /v1/load_lora_adapter` and `POST /v1/unload_lora_adapter`, as vLLM 0.32.0 accepts them. */
import { flag, object } from '../json-schema.ts';
import { checkedFields, type Parsed, parsed, wrongValue } from './request-problem.ts';

export interface LoadAdapterRequest {
  readonly name: string;
  /** As sent by the client. */
  readonly path: string;
}

const name = { type: 'string', maxLength: 256 } as const;
const loadSchema = object({ lora_name: name, lora_path: { type: 'string', maxLength: 4096 } }, { load_inplace: flag, is_3d_lora_weight: flag });
const unloadSchema = object({ lora_name: name });

export function parseLoadAdapterRequest(body: unknown): Parsed<LoadAdapterRequest> {
  return parsed(() => {
    const fields = checkedFields(body, loadSchema);
    if (fields.lora_name === '' || fields.lora_path === '') wrongValue(null, "Both 'lora_name' and 'lora_path' must be provided.");
    if (fields.load_inplace === true) {
      wrongValue(
        'load_inplace',
        'load_inplace is not supported, because a name always means the same weights here; load the adapter under a new name',
      );
    }
    if (fields.is_3d_lora_weight === true) {
      wrongValue('is_3d_lora_weight', 'is_3d_lora_weight is not supported, because the model has no experts; leave it out');
    }
    return { name: fields.lora_name, path: fields.lora_path };
  });
}

/** The adapter's name. */
export function parseUnloadAdapterRequest(body: unknown): Parsed<string> {
  return parsed(() => checkedFields(body, unloadSchema).lora_name);
}

/** What a client reads of a training service's JSON answers. Unknown keys are allowed: every release of every server adds some. */
import { byName, filledText, flag, nullable, number, numberOrNull, object, textOrNull } from '../json-schema.ts';

/** `client/config`. */
export const clientConfigSchema = object({}, { pjwt_auth_enabled: nullable(flag), proto_compress_fwdbwd: nullable(flag) });
/** `auth/token`. */
export const tokenSchema = object({ jwt: filledText });
/** `create_session`. */
export const sessionSchema = object({ session_id: filledText }, { info_message: textOrNull, warning_message: textOrNull, error_message: textOrNull });
/** Whatever is computed later. */
export const futureSchema = object({ request_id: filledText });
/** What `retrieve_future` says in place of a result. */
export const pendingSchema = object(
  {},
  { type: textOrNull, status: textOrNull, queue_state: textOrNull, queue_state_reason: textOrNull, error: textOrNull, category: textOrNull },
);
/** The result of `create_model`. */
export const createdModelSchema = object(
  { model_id: filledText },
  { base_model: textOrNull, lora_config: nullable(object({}, { rank: numberOrNull, alpha: numberOrNull })) },
);
/** `get_info`. */
export const modelInfoSchema = object({}, { model_data: nullable(object({}, { model_name: textOrNull })) });
/** The results of `save_weights` and `save_weights_for_sampler`. */
export const savedSchema = object({ path: filledText });
/** The result of `optim_step`. */
export const stepSchema = object({}, { metrics: nullable(byName(number)) });
/** `create_sampling_session`. */
export const samplerSchema = object({ sampling_session_id: filledText });

import { picturedPublisherContract } from '../../contracts/pictured-publisher.ts';
import { picturedPrompt, vlmAdapter } from '../../images/published-vlm.ts';
import { rulesOf } from '../../images/vlm-client.ts';
import { loraServer } from '../../loopback/lora-server.ts';

picturedPublisherContract(
  'loopback server',
  async () => {
    const { unit, pad } = rulesOf('qwen3_vl');
    const server = await loraServer({ baseModel: 'qwen3_vl', sees: { pad, unit } });
    return Object.assign(server, { ...(await picturedPrompt('qwen3_vl')), adapter: vlmAdapter('qwen3_vl') });
  },
  { ignoresTextNames: true },
);

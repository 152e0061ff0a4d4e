import { weightPublisherContract } from '../../contracts/weight-publisher.ts';
import { loraServer } from '../../loopback/lora-server.ts';

weightPublisherContract('loopback server', () => loraServer());

export {
  createVirtualClock as createFakeClock,
  type VirtualClock as FakeClock,
} from "../../src/domain/virtual-clock.ts";

export {
  createVirtualClock as createFakeClock,
  type VirtualClock as FakeClock,
} from "../../src/domain/clock/virtual-clock.ts";

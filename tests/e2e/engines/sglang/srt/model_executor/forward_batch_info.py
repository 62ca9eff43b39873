import enum


class ForwardMode(enum.Enum):
    EXTEND, DECODE, MIXED, IDLE, SPLIT_PREFILL = range(1, 6)

    def is_decode(self):
        return self is ForwardMode.DECODE
